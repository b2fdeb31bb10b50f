#include "containers/table_hash.hpp"

#include <random>

namespace acapella {
namespace {

std::uint64_t random_seed() {
    std::random_device device;
    return (static_cast<std::uint64_t>(device()) << 32) | device();
}

}  // namespace

TableHash::TableHash() : TableHash(random_seed()) {}

TableHash::TableHash(std::uint64_t seed) {
    for (std::uint64_t& secret : secrets_) {  // splitmix64 (Steele, Lea, Flood 2014)
        std::uint64_t z = seed += 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        secret = z ^ (z >> 31);
    }
}

}  // namespace acapella
