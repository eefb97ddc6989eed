"""ComfyUI's face of Headroom: each node declares its sockets and makes one call into the core."""
