"""Runs: carry a job out, follow it, keep what it left. The supervisor loads this package too, so it stays empty."""
