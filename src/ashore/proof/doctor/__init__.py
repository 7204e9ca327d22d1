"""`doctor`: repairs what can be repaired without guessing, and says what it will not do.

What it promises: `observe` reads only, `plan_doctor` is pure, `apply_steps` does what was shown.
"""
