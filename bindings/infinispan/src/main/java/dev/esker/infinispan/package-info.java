/**
 * A store for Infinispan's caches on Esker. {@link dev.esker.infinispan.EskerStoreConfigurationBuilder}
 * adds it to the configuration of a cache.
 */
package dev.esker.infinispan;
