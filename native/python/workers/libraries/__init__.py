"""One file for each library, named after the library. A file imports the library itself as a top-level
module."""
