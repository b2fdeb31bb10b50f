"""Modules shared by the analysis and the capture front end: the native core, errors, files, schemas."""
