"""Boards, and how a design becomes what is loaded onto one."""
