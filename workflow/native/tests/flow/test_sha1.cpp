// SHA-1 of short messages against Python's hashlib. Community IDs are compared with the reference
// implementation in workflow/tests/digest/test_community_id.py.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "flow/sha1.hpp"

namespace acapella {
namespace {

std::string sha1_hex(const std::string& text) {
    std::string hex;
    for (const std::byte byte : sha1_of_short(std::as_bytes(std::span(text.data(), text.size())))) {
        constexpr char kDigits[] = "0123456789abcdef";
        hex += kDigits[std::to_integer<unsigned>(byte) >> 4];
        hex += kDigits[std::to_integer<unsigned>(byte) & 15];
    }
    return hex;
}

// hashlib.sha1(text).hexdigest() of Python 3.11.
TEST(Sha1, MatchesPython) {
    std::string counted;
    for (char c = 0; c < 42; ++c) counted += c;
    EXPECT_EQ(sha1_hex(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    EXPECT_EQ(sha1_hex("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    EXPECT_EQ(sha1_hex(counted), "c627c449deff14ae7ed807293d30846f061da5b8");
    EXPECT_EQ(sha1_hex(std::string(kSha1Longest, 'a')), "c1c8bbdc22796e28c0e15163d20899b65621d65a");
}

TEST(Sha1, LongerMessageIsRejected) {
    EXPECT_THROW(sha1_hex(std::string(kSha1Longest + 1, 'a')), std::length_error);
}

}  // namespace
}  // namespace acapella
