/* Replaces libpcap's capture of D-Bus messages, which needs libraries that have no static version. The
 * replayer uses libpcap only to read files. libpcap calls these functions to list its devices, and to open
 * one by name. */
#include <pcap/pcap.h>

int dbus_findalldevs(void *devices, char *error);
pcap_t *dbus_create(const char *device, char *error, int *is_ours);

int dbus_findalldevs(void *devices, char *error) {
    (void)devices;
    (void)error;
    return 0;
}

pcap_t *dbus_create(const char *device, char *error, int *is_ours) {
    (void)device;
    (void)error;
    *is_ours = 0;
    return NULL;
}
