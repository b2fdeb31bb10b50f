#include "input/link_types.hpp"

namespace acapella::input {

std::uint32_t max_captured_len(std::uint16_t link_type) {
    switch (link_type) {
        case 231:  // DBUS
        case 249:  // USBPCAP
            return 128U << 20;
        case 279:  // EBHSCR
            return 8U << 20;
        default:
            return 256U << 10;
    }
}

std::uint32_t pseudo_header_len(std::uint16_t link_type) {
    switch (link_type) {
        case 123:  // SUNATM
        case 139:  // MTP2_WITH_PHDR
        case 201:  // BLUETOOTH_HCI_H4_WITH_PHDR
        case 254:  // BLUETOOTH_LINUX_MONITOR
            return 4;
        case 144:  // LINUX_IRDA
        case 177:  // LINUX_LAPD
            return 16;
        case 196:  // SITA
        case 209:  // I2C_LINUX
            return 5;
        case 204:  // PPP_WITH_DIR
            return 1;
        case 245:  // NFC_LLCP
            return 2;
        default:
            return 0;
    }
}

}  // namespace acapella::input
