# Compiler flags of the C programs (Compiler Options Hardening Guide, OpenSSF). Those of the core are in its CMakeLists.txt.
# _FORTIFY_SOURCE is not set with SANITIZE, because sanitizers check more and do not work with it.
HARDENED := -fPIE -fstack-protector-strong -fstack-clash-protection
HARDENED += $(if $(SANITIZE),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
HARDENED_LINK := -pie -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack
