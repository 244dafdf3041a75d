"""One file for each library, named after it."""
