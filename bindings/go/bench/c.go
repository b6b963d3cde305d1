// The same calls in C: loops that the benchmark times as a whole.

package main

/*
#cgo CFLAGS: -I${SRCDIR}/..
#include <stdlib.h>
#include <string.h>
#include "esker.h"

#define KEYS 10000

static void key_of(uint8_t *key, uint32_t i) {
	uint64_t number = (uint64_t)(i * 7919u % KEYS);
	for (int at = 7; at >= 0; at--, number >>= 8) key[at] = (uint8_t)number;
}

typedef struct { uint8_t room[256]; size_t len; } place;

static void take(void *state, const uint8_t *value, size_t len) {
	place *to = (place *)state;
	to->len = len;
	memcpy(to->room, value, len);
}

static esker_db_t *c_open(const char *path) {
	esker_db_t *db = NULL;
	return esker_open(path, NULL, &db, NULL) == ESKER_OK ? db : NULL;
}

static int c_get(esker_db_t *db, uint32_t count) {
	uint8_t key[8];
	place to;
	int failures = 0;
	for (uint32_t i = 0; i < count; i++) {
		key_of(key, i);
		to.len = 0;
		failures += esker_get_visit(db, NULL, 1, key, 8, &to, take, NULL) != ESKER_OK
			|| to.len != 100;
	}
	return failures;
}

static int c_put(esker_db_t *db, uint32_t count) {
	uint8_t key[8], value[100] = {7};
	int failures = 0;
	for (uint32_t i = 0; i < count; i++) {
		key_of(key, i);
		failures += esker_put(db, key, 8, value, 100, 0, NULL) != ESKER_OK;
	}
	return failures;
}

static int c_batch(esker_db_t *db, uint32_t count) {
	uint8_t key[8], value[100] = {7};
	int failures = 0;
	esker_batch_t *batch = esker_batch_create();
	for (uint32_t i = 0; i < count;) {
		esker_batch_clear(batch);
		for (int n = 0; n < 100; n++, i++) {
			key_of(key, i);
			esker_batch_put(batch, key, 8, value, 100, NULL);
		}
		failures += esker_write(db, batch, 0, NULL) != ESKER_OK;
	}
	esker_batch_destroy(batch);
	return failures;
}

static int c_scan(esker_db_t *db, uint32_t count) {
	esker_iter_t *iter = NULL;
	if (esker_iter_create(db, NULL, NULL, 0, NULL, 0, 1, &iter, NULL) != ESKER_OK) return 1;
	size_t len, bytes = 0;
	uint32_t rows = 0;
	while (rows < count) {
		for (esker_iter_seek_to_first(iter); esker_iter_valid(iter); esker_iter_next(iter)) {
			bytes += esker_iter_key(iter, &len)[7];
			bytes += esker_iter_value(iter, &len)[0];
			rows++;
		}
	}
	int failed = esker_iter_failure(iter, NULL) != ESKER_OK;
	esker_iter_destroy(iter);
	return failed + (bytes == 0);
}

static int c_scan_of(esker_db_t *db, uint32_t count, uint32_t pairs) {
	static uint8_t room[108 * 100];
	uint8_t key[8];
	int failures = 0;
	for (uint32_t i = 0; i < count; i++) {
		esker_iter_t *iter = NULL;
		uint8_t *to = room;
		key_of(key, i);
		if (esker_iter_create(db, NULL, NULL, 0, NULL, 0, 1, &iter, NULL) != ESKER_OK) return 1;
		esker_iter_seek(iter, key, 8);
		for (uint32_t n = 0; n < pairs && esker_iter_valid(iter); n++, esker_iter_next(iter)) {
			size_t key_len, value_len;
			const uint8_t *from = esker_iter_key(iter, &key_len);
			memcpy(to, from, key_len), to += key_len;
			from = esker_iter_value(iter, &value_len);
			memcpy(to, from, value_len), to += value_len;
		}
		failures += esker_iter_failure(iter, NULL) != ESKER_OK || to < room + 108;
		esker_iter_destroy(iter);
	}
	return failures;
}
*/
import "C"

import "unsafe"

type cStore struct{ db *C.esker_db_t }

func openC(path string) cStore {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	db := C.c_open(text)
	if db == nil {
		panic("the store of C was not opened")
	}
	return cStore{db}
}

func (c cStore) get(count int)   { check(C.c_get(c.db, C.uint32_t(count))) }
func (c cStore) put(count int)   { check(C.c_put(c.db, C.uint32_t(count))) }
func (c cStore) batch(count int) { check(C.c_batch(c.db, C.uint32_t(count))) }
func (c cStore) scan(count int)  { check(C.c_scan(c.db, C.uint32_t(count))) }
func (c cStore) scanOf(pairs C.uint32_t) func(int) {
	return func(count int) { check(C.c_scan_of(c.db, C.uint32_t(count), pairs)) }
}
func (c cStore) compact() { check(C.int(C.esker_compact_range(c.db, nil, 0, nil, 0, nil))) }
func (c cStore) close()   { C.esker_db_destroy(c.db) }

func check(failures C.int) {
	if failures != 0 {
		panic("a call of C failed")
	}
}
