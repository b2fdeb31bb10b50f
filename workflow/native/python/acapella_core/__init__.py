"""What the analysis and the capture front end share: the native core, errors, files, schemas."""
