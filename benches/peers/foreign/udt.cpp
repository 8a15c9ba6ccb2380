// UDT 4: reliable streams over UDP with a rate-based congestion control. Tuned as described in
// src/foreign.rs.

#include "child.hpp"

#include <udt/udt.h>

namespace {

/// Limit on unacknowledged packets.
constexpr int FLIGHT = 51'200;

/// Size of the library's send and receive buffers, bytes.
constexpr int BUFFER = 64 << 20;

/// Size of the UDP socket's receive buffer, bytes. The send buffer is the default, because loopback
/// empties it within each call.
constexpr int UDP_RECEIVE = 4 << 20;

/// MTU, bytes: the IPv4 packet with headers, so UDP has 28 bytes less.
constexpr int MSS = 1500;

/// Throws UDT's error message if a call failed.
int checked(int result) {
    if (result == UDT::ERROR) {
        throw std::runtime_error(UDT::getlasterror_desc());
    }
    return result;
}

class Socket {
public:
    static Socket listen(const sockaddr_in &address) {
        Socket socket;
        checked(UDT::bind(socket.id, reinterpret_cast<const sockaddr *>(&address), sizeof address));
        checked(UDT::listen(socket.id, 1));
        return socket;
    }

    static Socket connect(const sockaddr_in &address) {
        Socket socket;
        checked(UDT::connect(socket.id, reinterpret_cast<const sockaddr *>(&address), sizeof address));
        return socket;
    }

    std::uint16_t port() const {
        sockaddr_in address{};
        int size = sizeof address;
        checked(UDT::getsockname(id, reinterpret_cast<sockaddr *>(&address), &size));
        return ntohs(address.sin_port);
    }

    /// Accepts a connection, which inherits the listener's options.
    Socket accept() const {
        sockaddr_in peer{};
        int size = sizeof peer;
        return Socket(checked(UDT::accept(id, reinterpret_cast<sockaddr *>(&peer), &size)));
    }

    std::size_t read(char *bytes, std::size_t size) const {
        return static_cast<std::size_t>(checked(UDT::recv(id, bytes, static_cast<int>(size), 0)));
    }

    std::size_t write(const char *bytes, std::size_t size) const {
        return static_cast<std::size_t>(checked(UDT::send(id, bytes, static_cast<int>(size), 0)));
    }

    /// Returns when everything written is acknowledged, or the peer has closed.
    void close() const { checked(UDT::close(id)); }

private:
    explicit Socket(UDTSOCKET id) : id(id) {}

    Socket() : Socket(checked(UDT::socket(AF_INET, SOCK_STREAM, 0))) {
        set(UDT_MSS, MSS);
        set(UDT_FC, FLIGHT);
        set(UDT_SNDBUF, BUFFER);
        set(UDT_RCVBUF, BUFFER);
        set(UDP_RCVBUF, UDP_RECEIVE);
    }

    void set(UDT::SOCKOPT option, int value) const {
        checked(UDT::setsockopt(id, 0, option, &value, sizeof value));
    }

    UDTSOCKET id;
};

} // namespace

int main(int count, char **words) {
    UDT::startup();
    const int status = child::run<Socket>(count, words);
    UDT::cleanup();
    return status;
}
