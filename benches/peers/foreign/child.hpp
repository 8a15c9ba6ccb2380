// Shared by the children in C++, with the same protocol as the children in Rust (src/meter.rs):
// source and count of the bytes, and the lines for the parent. A peer is a class `Socket` with the
// functions that `receive` and `send` call.

#pragma once

#include <algorithm>
#include <arpa/inet.h>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <iostream>
#include <netinet/in.h>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace child {

/// Size of the sender's buffer, which it sends in a cycle, bytes. It fits a cache, as a program's
/// own buffer would.
constexpr std::size_t SOURCE = 256 << 10;

/// Limit on the bytes of one read.
constexpr std::size_t READ = 1 << 20;

/// Returns an address on the loopback interface; with port 0 the kernel chooses the port.
inline sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/// Returns the processor time of this process so far, microseconds.
inline std::uint64_t processor_us() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(time.tv_nsec) / 1000;
}

/// Reads the port from the receiver's first line, which the parent passes to the sender.
inline std::uint16_t read_port() {
    const std::string host = "\"127.0.0.1:";
    std::string line;
    std::getline(std::cin, line);
    const auto at = line.find(host);
    const auto port = at == std::string::npos ? 0 : std::strtoul(line.c_str() + at + host.size(), nullptr, 10);
    if (port == 0 || port > UINT16_MAX) {
        throw std::runtime_error("no address in the line on standard input: " + line);
    }
    return static_cast<std::uint16_t>(port);
}

/// Receives one transfer. A stream without an end for which the sender could wait is confirmed by
/// one byte back.
template <class Socket> void receive(std::uint64_t bytes) {
    using Clock = std::chrono::steady_clock;
    auto listener = Socket::listen(loopback(0));
    std::printf("{\"address\":\"127.0.0.1:%u\"}\n", static_cast<unsigned>(listener.port()));
    std::fflush(stdout);
    auto stream = listener.accept();
    std::vector<char> buffer(READ);
    std::optional<Clock::time_point> first;
    std::uint64_t received = 0;
    while (received < bytes) {
        received += stream.read(buffer.data(), buffer.size());
        first = first.value_or(Clock::now());
    }
    const std::chrono::duration<double> time = Clock::now() - first.value_or(Clock::now());
    const char done = 1;
    stream.write(&done, 1);
    stream.close();
    if (received != bytes) {
        throw std::runtime_error(std::to_string(received) + " bytes of " + std::to_string(bytes) + " came");
    }
    std::printf("{\"bytes\":%llu,\"seconds\":%.9f,\"processor_us\":%llu}\n",
        static_cast<unsigned long long>(received), time.count(), static_cast<unsigned long long>(processor_us()));
}

/// Sends one transfer to the address in the line on standard input.
template <class Socket> void send(std::uint64_t bytes) {
    std::vector<char> source(SOURCE);
    for (std::size_t at = 0; at < SOURCE; ++at) {
        source[at] = static_cast<char>(at);
    }
    auto stream = Socket::connect(loopback(read_port()));
    for (std::uint64_t sent = 0; sent < bytes;) {
        const auto at = static_cast<std::size_t>(sent % SOURCE);
        sent += stream.write(&source[at], static_cast<std::size_t>(std::min<std::uint64_t>(bytes - sent, SOURCE - at)));
    }
    char done = 0;
    stream.read(&done, 1);
    stream.close();
    std::printf("{\"processor_us\":%llu}\n", static_cast<unsigned long long>(processor_us()));
}

/// Runs the program with `receive BYTES` or `send BYTES`.
template <class Socket> int run(int count, char **words) {
    const std::string role = count == 3 ? words[1] : "";
    if (role != "receive" && role != "send") {
        std::fprintf(stderr, "wants receive BYTES or send BYTES\n");
        return 2;
    }
    const std::uint64_t bytes = std::strtoull(words[2], nullptr, 10);
    try {
        role == "send" ? send<Socket>(bytes) : receive<Socket>(bytes);
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}

} // namespace child
