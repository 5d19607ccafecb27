"""Its being here lets tests in folders below import the kits of this one."""
