"""The fuzzer: hostile calls, programs beside torch, damaged files of checkpoints and of programs,
nests of function transforms, allocations that fail.

    python -m fuzz calls --seconds 600          every kind: see worker.KINDS
    python -m fuzz calls --seed 1234            one case again, each step printed before it is made

A case follows from its seed alone. Cases run in a worker process, which says which seed it is at:
one that dies, or takes 20 seconds, is a finding with a seed. What a case leaves alive is one too.
"""
