'use strict'

// Decides where reads run. A read of memory takes less time than a crossing to libuv's pool and
// back, so it runs in the thread of JavaScript. When reads get slow, because they read files, they
// run in the pool and the thread stays free.
//
// Invariant: reads of the pool report their time too, so that the pace returns when they are fast.

// Average time of a read, in microseconds, above which reads go to the pool.
const SLOW_US = 50
// Part of a sampled time that counts, so that one pause of the garbage collector is not a trend.
const SAMPLE_US_MAX = 150
// One of so many reads is measured.
const SAMPLED = 16
// Time of one fill of an iterator, in microseconds, above which the next ones go to the pool.
exports.FILL_US_MAX = 1000

exports.Pace = class Pace {
  isSlow = false
  #average = 0
  #reads = 0

  // Returns whether to measure the next read.
  get isSample () {
    return (++this.#reads & (SAMPLED - 1)) === 0
  }

  // Notes the time of a read, in microseconds.
  note (us) {
    this.#average = this.#average * 0.75 + Math.min(us, SAMPLE_US_MAX) * 0.25
    this.isSlow = this.#average > SLOW_US
  }
}
