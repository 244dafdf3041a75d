"""One file for each library, named after the library. The file imports the library as a top-level module, so
the equal names do not collide."""
