#!/bin/sh
# Makes the distribution's npm run here. Its hundreds of packages are unpacked
# only: to install them takes minutes, and nothing of them is kept.
set -eu

apt-get update
apt-get install --yes --no-install-recommends --download-only npm
for package in /var/cache/apt/archives/*.deb; do
	dpkg-deb --fsys-tarfile "$package" | tar --extract --keep-directory-symlink --directory=/
done
rm -rf /var/cache/apt/archives/*.deb /var/lib/apt/lists/*
ldconfig
npm --version
