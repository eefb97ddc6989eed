"""Levers and ladders: what a job can give way in, in which order, and what breaks AI Toolkit whatever the memory."""
