"""The checks of the suite, one module each."""
