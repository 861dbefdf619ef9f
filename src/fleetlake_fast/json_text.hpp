// Reads JSON strictly, one token at a time, from an untrusted buffer.
//
// Every function returns false unless it is certain to read the text as the Python reader does: the
// caller then refuses the whole page. No function reads at or past `end`.

#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace fleetlake {

constexpr int kMaxDepth = 100;        // half of what the Python reader allows in one record
constexpr size_t kMaxWholeDigits = 15;  // fewer than 2^53, so doubles hold them all

class JsonText {
 public:
  explicit JsonText(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  // Takes a sign such as '{' after white space.
  bool take(char sign) {
    space();
    if (at_ == end_ || *at_ != sign) return false;
    ++at_;
    return true;
  }

  // Returns the next byte after white space without taking it, or 0 at the end.
  char peek() {
    space();
    return at_ == end_ ? '\0' : *at_;
  }

  bool is_at_end() {
    space();
    return at_ == end_;
  }

  bool take_null() { return take_word("null"); }

  bool take_flag(bool& value) {
    value = peek() == 't';
    return value ? take_word("true") : take_word("false");
  }

  // Takes a member's name and its colon. A name with an escape is refused.
  bool take_name(std::string_view& name) { return take_plain_string(name) && take(':'); }

  // Takes a name if it is this one and is written without white space: the usual case.
  bool take_expected(std::string_view name) {
    if (static_cast<size_t>(end_ - at_) < name.size() + 3 || at_[0] != '"') return false;
    const char* after = at_ + 1 + name.size();
    if (after[0] != '"' || after[1] != ':' || std::memcmp(at_ + 1, name.data(), name.size()) != 0)
      return false;
    at_ = after + 2;
    return true;
  }

  // Takes a string and appends its UTF-8 text. A NUL or half a surrogate pair is refused.
  bool append_string(std::vector<char>& text) {
    if (!take('"')) return false;
    for (;;) {
      const char* start = at_;
      if (!plain_run() || at_ == end_) return false;
      text.insert(text.end(), start, at_);
      if (*at_ == '"') {
        ++at_;
        return true;
      }
      if (!append_escape(text)) return false;
    }
  }

  // Takes a string without escapes, which then is a part of the buffer.
  bool take_plain_string(std::string_view& text) {
    if (!take('"')) return false;
    const char* start = at_;
    if (!plain_run() || at_ == end_ || *at_ != '"') return false;
    text = {start, static_cast<size_t>(at_ - start)};
    ++at_;
    return true;
  }

  // Takes a number as JSON spells it.
  bool take_number(std::string_view& number, bool& is_whole) {
    space();
    const char* start = at_;
    is_whole = true;
    if (at_ != end_ && *at_ == '-') ++at_;
    if (at_ != end_ && *at_ == '0') {
      ++at_;
    } else if (!digits()) {
      return false;
    }
    if (at_ != end_ && *at_ == '.') {
      is_whole = false;
      ++at_;
      if (!digits()) return false;
    }
    if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
      is_whole = false;
      ++at_;
      if (at_ != end_ && (*at_ == '+' || *at_ == '-')) ++at_;
      if (!digits()) return false;
    }
    number = {start, static_cast<size_t>(at_ - start)};
    return true;
  }

  // Takes any value and gives its text as received, without the white space around it.
  bool take_raw(std::string_view& raw) {
    space();
    const char* start = at_;
    if (!skip_value(0)) return false;
    raw = {start, static_cast<size_t>(at_ - start)};
    return true;
  }

  bool skip_value(int depth) {
    switch (peek()) {
      case '{':
        return skip_object(depth);
      case '[':
        return skip_list(depth);
      case '"':
        return skip_string();
      case 't':
        return take_word("true");
      case 'f':
        return take_word("false");
      case 'n':
        return take_word("null");
      default: {
        std::string_view number;
        bool is_whole;
        return take_number(number, is_whole);
      }
    }
  }

 private:
  static bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

  void space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }

  bool digits() {
    const char* start = at_;
    while (at_ != end_ && is_digit(*at_)) ++at_;
    return at_ != start;
  }

  bool take_word(std::string_view word) {
    space();
    if (static_cast<size_t>(end_ - at_) < word.size() ||
        std::memcmp(at_, word.data(), word.size()) != 0)
      return false;
    at_ += word.size();
    return true;
  }

  bool skip_object(int depth) {
    if (depth >= kMaxDepth || !take('{')) return false;
    if (take('}')) return true;
    do {
      if (!skip_string() || !take(':') || !skip_value(depth + 1)) return false;
    } while (take(','));
    return take('}');
  }

  bool skip_list(int depth) {
    if (depth >= kMaxDepth || !take('[')) return false;
    if (take(']')) return true;
    do {
      if (!skip_value(depth + 1)) return false;
    } while (take(','));
    return take(']');
  }

  bool skip_string() {
    if (!take('"')) return false;
    for (;;) {
      if (!plain_run() || at_ == end_) return false;
      if (*at_ == '"') {
        ++at_;
        return true;
      }
      scratch_.clear();
      if (!append_escape(scratch_)) return false;
    }
  }

  // Moves to the next quote or backslash, or to the end. Refuses control characters and bytes that
  // are not UTF-8.
  bool plain_run() {
    constexpr uint64_t kOnes = 0x0101010101010101, kHighs = 0x8080808080808080;
    for (;;) {
      while (end_ - at_ >= 8) {
        uint64_t word;
        std::memcpy(&word, at_, 8);
        const uint64_t quotes = word ^ (kOnes * '"'), slashes = word ^ (kOnes * '\\');
        const uint64_t found = ((quotes - kOnes) & ~quotes) | ((slashes - kOnes) & ~slashes) |
                               ((word - kOnes * 0x20) & ~word) | word;
        if (found & kHighs) break;
        at_ += 8;
      }
      // At most eight bytes, unless they are not ASCII.
      for (;; ++at_) {
        if (at_ == end_ || *at_ == '"' || *at_ == '\\') return true;
        const auto byte = static_cast<unsigned char>(*at_);
        if (byte < 0x20) return false;
        if (byte >= 0x80) break;
      }
      if (!skip_character()) return false;
    }
  }

  // Moves past one character that UTF-8 writes with two to four bytes.
  bool skip_character() {
    const auto* bytes = reinterpret_cast<const unsigned char*>(at_);
    const auto left = end_ - at_;
    const auto follows = [&](int index, unsigned low = 0x80, unsigned high = 0xBF) {
      return index < left && bytes[index] >= low && bytes[index] <= high;
    };
    const unsigned first = bytes[0];
    int length = 0;
    if (first >= 0xC2 && first <= 0xDF) {
      length = follows(1) ? 2 : 0;
    } else if (first >= 0xE0 && first <= 0xEF) {
      const unsigned low = first == 0xE0 ? 0xA0 : 0x80, high = first == 0xED ? 0x9F : 0xBF;
      length = follows(1, low, high) && follows(2) ? 3 : 0;
    } else if (first >= 0xF0 && first <= 0xF4) {
      const unsigned low = first == 0xF0 ? 0x90 : 0x80, high = first == 0xF4 ? 0x8F : 0xBF;
      length = follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
    }
    at_ += length;
    return length != 0;
  }

  bool take_hex(uint32_t& unit) {
    if (end_ - at_ < 4) return false;
    unit = 0;
    for (int digit = 0; digit < 4; ++digit, ++at_) {
      const char byte = *at_;
      const int value = is_digit(byte)                 ? byte - '0'
                        : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
                        : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                                     : -1;
      if (value < 0) return false;
      unit = unit << 4 | static_cast<uint32_t>(value);
    }
    return true;
  }

  bool append_escape(std::vector<char>& text) {
    if (end_ - at_ < 2) return false;
    const char sign = at_[1];
    at_ += 2;
    if (sign == 'u') return append_unicode(text);
    constexpr std::string_view kSigns = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    const auto found = kSigns.find(sign);
    if (found == std::string_view::npos) return false;
    text.push_back(kMeant[found]);
    return true;
  }

  bool append_unicode(std::vector<char>& text) {
    uint32_t point, low;
    if (!take_hex(point) || point == 0) return false;
    if (point >= 0xD800 && point <= 0xDFFF) {
      if (point >= 0xDC00 || end_ - at_ < 6 || at_[0] != '\\' || at_[1] != 'u') return false;
      at_ += 2;
      if (!take_hex(low) || low < 0xDC00 || low > 0xDFFF) return false;
      point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    }
    const auto put = [&](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
    const auto rest = [&](int shift) { put(0x80 | (point >> shift & 0x3F)); };
    if (point < 0x80) {
      put(point);
    } else if (point < 0x800) {
      put(0xC0 | point >> 6), rest(0);
    } else if (point < 0x10000) {
      put(0xE0 | point >> 12), rest(6), rest(0);
    } else {
      put(0xF0 | point >> 18), rest(12), rest(6), rest(0);
    }
    return true;
  }

  const char* at_;
  const char* end_;
  std::vector<char> scratch_;
};

}  // namespace fleetlake
