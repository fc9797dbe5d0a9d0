"""What a host sees of a kernel: its registers."""
