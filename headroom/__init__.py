"""Headroom's core: read, diagnose and correct AI Toolkit jobs. Imports neither ComfyUI nor torch."""

__version__ = "0.1.0"
