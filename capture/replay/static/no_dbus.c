/* Replaces libpcap's capture of D-Bus messages, whose libraries do not exist for static linking. The replayer
 * only reads files. libpcap calls these functions to list its devices, and to open one by name. */
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
