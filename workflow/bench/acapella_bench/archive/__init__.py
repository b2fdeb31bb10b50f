"""An archive of many captures, processed by the whole workflow: locally, on one core, and through Slurm."""
