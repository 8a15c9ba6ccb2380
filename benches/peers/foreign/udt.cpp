// UDT 4: reliable streams over UDP with a control of congestion by rate. Tuned as src/foreign.rs says.

#include "child.hpp"

#include <udt/udt.h>

namespace {

/// Most packets unacknowledged.
constexpr int FLIGHT = 51'200;

/// Buffers of the library at either end, bytes.
constexpr int BUFFER = 64 << 20;

/// The UDP socket's buffer to receive, bytes. That to send is left alone: loopback empties it within each call.
constexpr int UDP_RECEIVE = 4 << 20;

/// IPv4's packet, headers included: UDP carries 28 bytes less.
constexpr int MSS = 1500;

/// A call that failed ends the program; UDT remembers why.
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

    /// It inherits the listener's options.
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

    /// Returns when all that was written is acknowledged, or the peer has closed.
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
