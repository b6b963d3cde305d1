/* A transfer between two accounts, in a transaction that runs again after a conflict. The log of
 * transfers is in a keyspace of its own; one commit writes both. The argument is the directory of
 * the store. scripts/capi.sh compiles and runs this program. */
#include <esker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program after a failure. */
static void check(int32_t code, char *message) {
    if (code == ESKER_OK) return;
    fprintf(stderr, "transactions.c: %d: %s\n", code, message == NULL ? "" : message);
    exit(1);
}

/* Reads an account and protects it, so that the commit fails if another one changes it. */
static int32_t balance(esker_transaction_t *transaction, const char *account, long *amount,
                       char **message) {
    uint8_t *value = NULL;
    size_t length = 0;
    char digits[32] = "0";
    int32_t code = esker_transaction_get_for_update(transaction, account, strlen(account),
                                                    &value, &length, message);
    if (code == ESKER_OK && value != NULL && length < sizeof digits) {
        memcpy(digits, value, length);
        digits[length] = 0;
    }
    *amount = strtol(digits, NULL, 10);
    esker_free(value);
    return code;
}

static int32_t set(esker_transaction_t *transaction, const char *account, long amount,
                   char **message) {
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%ld", amount);
    return esker_transaction_put(transaction, account, strlen(account), digits,
                                 (size_t)length, message);
}

/* Transfers an amount in one run of a transaction. */
static int32_t run(esker_transaction_t *transaction, esker_keyspace_t *log, const char *from,
                   const char *to, long amount, char **message) {
    long source, target;
    char line[64];
    int length = snprintf(line, sizeof line, "%s %s %ld", from, to, amount);
    int32_t code = balance(transaction, from, &source, message);
    if (code == ESKER_OK) code = balance(transaction, to, &target, message);
    if (code == ESKER_OK) code = set(transaction, from, source - amount, message);
    if (code == ESKER_OK) code = set(transaction, to, target + amount, message);
    if (code == ESKER_OK)
        code = esker_transaction_put_in(transaction, log, line, (size_t)length, NULL, 0, message);
    return code == ESKER_OK ? esker_transaction_commit(transaction, message) : code;
}

static void transfer(esker_db_t *db, esker_keyspace_t *log, const char *from, const char *to,
                     long amount) {
    esker_transaction_options_t *options = esker_transaction_options_create();
    char *message = NULL;
    int32_t code;
    check(esker_transaction_options_set_durability(options, ESKER_DURABILITY_SYNC, &message),
          message);
    do {
        esker_transaction_t *transaction = NULL;
        check(esker_transaction_begin(db, options, &transaction, &message), message);
        code = run(transaction, log, from, to, amount, &message);
        /* Rolls it back if it was not committed. */
        esker_transaction_destroy(transaction);
    } while (code == ESKER_CONFLICT || code == ESKER_DEADLOCK);
    check(code, message);
    esker_transaction_options_destroy(options);
    esker_free(message);
}

int main(int argc, char **argv) {
    esker_db_t *db = NULL;
    esker_keyspace_t *log = NULL;
    esker_transaction_t *reader = NULL;
    char *message = NULL;
    long ada = 0, bob = 0;
    if (argc != 2) return 2;
    check(esker_open(argv[1], NULL, &db, &message), message);
    check(esker_keyspace_open(db, "log", NULL, &log, &message), message);
    check(esker_put(db, "ada", 3, "100", 3, ESKER_DURABILITY_DEFAULT, &message), message);
    transfer(db, log, "ada", "bob", 30);
    transfer(db, log, "bob", "ada", 5);

    /* Reads both accounts as of one moment. */
    check(esker_transaction_begin(db, NULL, &reader, &message), message);
    check(balance(reader, "ada", &ada, &message), message);
    check(balance(reader, "bob", &bob, &message), message);
    esker_transaction_destroy(reader);
    printf("transactions.c: ada has %ld, bob has %ld\n", ada, bob);

    esker_keyspace_close(log);
    check(esker_close(db, &message), message);
    esker_db_destroy(db);
    esker_free(message);
    return ada == 75 && bob == 25 ? 0 : 1;
}
