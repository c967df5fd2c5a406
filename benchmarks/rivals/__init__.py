"""The same questions to other libraries of differential privacy. Run by `make rivals`."""
