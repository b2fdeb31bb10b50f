"""report.html of a campaign."""
