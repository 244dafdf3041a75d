"""One file a library. They are named after it: import the library itself by its own name."""
