"""What runs inside AI Toolkit's process and Python: it wraps its methods, reports, and calls its ``run.py``.

It stands alone: standard library and torch only, started by path. It shares nothing with the rest but the event format.
"""
