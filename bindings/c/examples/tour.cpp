// A tour of esker.hpp: c++ -std=c++17 tour.cpp -lesker && ./a.out fruit.db

#include <iostream>

#include "esker.hpp"

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: tour DIRECTORY\n";
        return 2;
    }
    try {
        esker::Options options;
        options.set_merge_operator("add_i64");
        esker::Db db = esker::Db::open(argv[1], options);

        db.put("apple", "red");
        db.write(esker::Batch().put("banana", "yellow").put("cherry", "red").erase("apple"));
        for (auto [key, value] : db.scan()) std::cout << key << " = " << value << "\n";

        // Two accounts of a keyspace change together, or not at all.
        esker::Keyspace accounts = db.keyspace("accounts");
        accounts.put("ada", "100");
        accounts.put("bob", "0");
        db.transact([&](esker::Transaction& transaction) {
            const int ada = std::stoi(*transaction.get(accounts, "ada"));
            const int bob = std::stoi(*transaction.get(accounts, "bob"));
            transaction.put(accounts, "ada", std::to_string(ada - 25));
            transaction.put(accounts, "bob", std::to_string(bob + 25));
        });
        std::cout << "ada has " << *accounts.get("ada") << "\n";

        // A counter changes without a read.
        for (int visit = 0; visit < 3; ++visit) db.merge("visits", "1");
        std::cout << "visits: " << *db.get("visits") << "\n";
        db.close();
    } catch (const esker::Error& error) {
        std::cerr << "tour: " << error.what() << "\n";
        return 1;
    }
    return 0;
}
