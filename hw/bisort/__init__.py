"""The BI-Sort engine, block by block (PanJoin, section IV)."""
