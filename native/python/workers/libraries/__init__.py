"""Each module has a class Library, which runs one of the libraries that worker.py lists."""
