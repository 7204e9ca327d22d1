"""What is wrong with a checkpoint, and a copy of it that is not.

What it is: `observe`, which reads; `diagnose`, which decides; `repairing`, which writes a copy. The
codes are in `findings`, the checks of bytes in `contents`.
What it promises: the checkpoint is only read. Where something was not looked at, that is said: no
finding does not mean that nothing is wrong with it.
"""
