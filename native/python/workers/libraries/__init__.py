"""One file for each library, named after it. `import epcomm` in libraries/epcomm.py finds the library, not the file."""
