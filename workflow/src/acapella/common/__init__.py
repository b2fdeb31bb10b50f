"""Modules that the other packages share. They import none of those packages."""
