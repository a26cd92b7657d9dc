"""`make bench`: how Relaydeck compares with doing the same thing bare. Ratios only, one run, side by side."""
