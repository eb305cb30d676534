"""Records of NCCL's last calls, which nothing here writes: a failure names ranks and lines."""
