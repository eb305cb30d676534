"""Ways to train in several processes: for one, there is nothing to agree upon."""
