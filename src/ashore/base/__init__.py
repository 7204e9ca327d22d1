"""Small things that every layer needs: time, ids, units.

Promises: standard library only; nothing here reads a clock or entropy unless it is handed in.
"""
