"""The DE5a-Net: what is written for the vendor's tools."""
