"""Parts of RemoteModule, which is refused."""
