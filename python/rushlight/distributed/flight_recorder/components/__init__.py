"""Parts of a reader of NCCL's records, which are refused."""
