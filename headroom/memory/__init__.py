"""What a machine has: its GPUs, RAM, /dev/shm and disks, and who uses them."""
