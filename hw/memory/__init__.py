"""Memory ports: burst readers and writers on AXI4, and what shares a port between them."""
