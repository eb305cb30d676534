"""`python -m rushlight.utils.bottleneck script.py [args]`: where a program's time goes."""
