"""The HTML report of a campaign (report.html)."""
