"""The kernels that there are, each as a module of data with its `DESIGN`."""
