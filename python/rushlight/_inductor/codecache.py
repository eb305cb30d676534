"""What a compiler keeps of compiled code: nothing, as there is no compiler."""
